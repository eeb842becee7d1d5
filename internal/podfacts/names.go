package podfacts

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// CheckNames returns an error unless all names of a pod that become parts of paths have the form
// that the API server requires: UID, namespace, name, and the names of containers and volumes. The
// error contains the field. It is fast, because every new version of a pod is checked.
func CheckNames(pod *v1.Pod) error {
	const label, subdomain = "is not a DNS-1123 label", "is not a DNS-1123 subdomain"
	bad := func(field, name, why string) error {
		return fmt.Errorf("%s: Invalid value: %.80q: %s", field, name, why)
	}
	switch {
	case !IsSafeUID(string(pod.UID)):
		return bad("metadata.uid", string(pod.UID), "is not usable as a folder name")
	case !isLabel(pod.Namespace):
		return bad("metadata.namespace", pod.Namespace, label)
	case !isSubdomain(pod.Name):
		return bad("metadata.name", pod.Name, subdomain)
	}
	for c := range Containers(pod) {
		if !isLabel(c.Name) {
			return bad("name of a container", c.Name, label)
		}
	}
	for i := range pod.Spec.Volumes {
		if name := pod.Spec.Volumes[i].Name; !isLabel(name) {
			return bad(fmt.Sprintf("spec.volumes[%d].name", i), name, label)
		}
	}
	return nil
}

// IsSafeUID reports whether a UID is usable as a folder name: at most 128 letters, digits, '-', '_'
// and '.', with a letter or digit at both ends.
func IsSafeUID(uid string) bool {
	return len(uid) <= 128 && isName(uid, func(c byte) bool { return c == '-' || c == '_' || c == '.' || c >= 'A' && c <= 'Z' })
}

func isLabel(name string) bool {
	return len(name) <= 63 && isName(name, func(c byte) bool { return c == '-' })
}

func isSubdomain(name string) bool {
	start := 0
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '.' {
			continue
		}
		if !isName(name[start:i], func(c byte) bool { return c == '-' }) {
			return false
		}
		start = i + 1
	}
	return len(name) <= 253
}

// isName reports whether a text has only lower-case letters, digits and inner characters, the
// latter not at its ends except for upper-case letters.
func isName(text string, inner func(byte) bool) bool {
	for i := range len(text) {
		c := text[i]
		alphanumeric := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		atEnd := i == 0 || i == len(text)-1
		upper := c >= 'A' && c <= 'Z'
		if !alphanumeric && (!inner(c) || atEnd && !upper) {
			return false
		}
	}
	return text != ""
}
