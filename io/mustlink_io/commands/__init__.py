"""Arguments and help of the commands, a file each; what they do is in the modules beside."""
