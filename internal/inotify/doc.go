// Package inotify reads what Linux tells of changes in folders.
package inotify
