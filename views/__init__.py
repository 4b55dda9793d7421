"""Views of one table: stored groups, each part of which stands for many segments."""
