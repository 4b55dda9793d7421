"""Segments written anew, by threads or by the tasks of a cluster."""
