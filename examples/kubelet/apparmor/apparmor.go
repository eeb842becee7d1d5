// Package apparmor detects whether a node can confine containers with AppArmor, for
// admission.AppArmor.
package apparmor

import "io/fs"

// Enabled reports whether AppArmor is available and enabled in the kernel. sys is /sys. The result
// does not change before a reboot.
func Enabled(sys fs.FS) bool {
	if _, err := fs.Stat(sys, "kernel/security/apparmor"); err != nil {
		return false
	}
	text, err := fs.ReadFile(sys, "module/apparmor/parameters/enabled")
	return err == nil && len(text) > 0 && text[0] == 'Y'
}
