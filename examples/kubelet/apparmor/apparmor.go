// Package apparmor knows whether a node can confine containers by AppArmor, for
// admission.AppArmor.
package apparmor

import "io/fs"

// Enabled tells whether the kernel has AppArmor, and uses it; sys is /sys. It does not
// change while the machine runs.
func Enabled(sys fs.FS) bool {
	if _, err := fs.Stat(sys, "kernel/security/apparmor"); err != nil {
		return false
	}
	text, err := fs.ReadFile(sys, "module/apparmor/parameters/enabled")
	return err == nil && len(text) > 0 && text[0] == 'Y'
}
