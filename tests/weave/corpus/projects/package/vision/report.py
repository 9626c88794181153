from pathlib import Path


def write(history):
    with open("history.txt", "w") as file:
        for loss, right in history:
            file.write(f"{loss:.3f} {right:.3f}\n")
    with Path("best.txt").open("w") as file:
        file.write(f"{max(right for _, right in history):.3f}\n")
