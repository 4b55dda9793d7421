"""Questions of other engines, answered by ours where both give them the same meaning."""
