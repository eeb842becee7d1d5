// Package fs has file operations that several packages share: atomic writes, reads with a limit,
// watches of folders (inotify), and walks and removals of folder trees that containers change at
// the same time.
package fs
