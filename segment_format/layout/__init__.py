"""The frame of a segment file: head, tail, footer, directory, types and limits."""
