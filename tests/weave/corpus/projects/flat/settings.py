epochs, batch_size = 3, 16
path = "flat.pt"
