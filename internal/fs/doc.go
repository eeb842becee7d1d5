// Package fs has the file operations that several packages share: files that are written whole or not at all, reads with
// a limit, watches of folders (inotify), and walks and removals of folder trees that containers change at the same time.
package fs
