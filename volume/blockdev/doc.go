// Package blockdev is what plugins of volumes do with block devices: to make a file
// system on one that has none and mount it, to hold one so that it cannot vanish while a
// pod uses it, and to link to it.
package blockdev
