package podfacts

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
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
	for i := range len(uid) {
		atEnd := i == 0 || i == len(uid)-1
		if c := uid[i]; !isAlphanumeric(c) && (atEnd || strings.IndexByte("-_.", c) < 0) {
			return false
		}
	}
	return uid != "" && len(uid) <= 128
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z'
}

func isLabel(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

func isSubdomain(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }
