"""Processes that answer queries side by side: how they are started, asked and replaced."""
