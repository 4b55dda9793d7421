"""Projections built in segments that lack them."""
