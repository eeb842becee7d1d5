// Package files follows files that other programs write: Tree watches them, Hints collects
// the reports of a watch, Reads bounds the time that reads take, and Reader reads one file
// up to a size, without waiting for the other end of a pipe, and only if it has changed.
package files
