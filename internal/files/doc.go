// Package files reads files that others write while they are read: never more of them
// than a limit, never waiting for the other end of a pipe, and again only if they have
// changed. Hints collects what a watch says of them.
package files
