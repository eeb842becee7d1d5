// Package tree walks and removes folders that containers may change at the same time:
// it follows no symbolic link, leaves no mount, holds one folder open however deep the
// tree is, and ends with its context.
package tree
