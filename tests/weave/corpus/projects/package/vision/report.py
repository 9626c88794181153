def write(history):
    with open("history.txt", "w") as file:
        for loss, right in history:
            file.write(f"{loss:.3f} {right:.3f}\n")
