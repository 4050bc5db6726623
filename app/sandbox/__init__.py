"""What runs with limits in processes of its own: images, exports."""
