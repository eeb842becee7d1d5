// Package blockdev formats, mounts, holds and links block devices for volume plugins. A held
// device cannot be detached while a pod uses it.
package blockdev
