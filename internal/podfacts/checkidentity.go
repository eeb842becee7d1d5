package podfacts

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// CheckIdentity returns an error if a pod is nil or lacks UID, name or namespace, which identify
// it. The error contains the field.
func CheckIdentity(pod *v1.Pod) error {
	if pod == nil {
		return errors.New("the pod is nil")
	}
	for _, f := range []struct{ field, value string }{
		{"uid", string(pod.UID)}, {"name", pod.Name}, {"namespace", pod.Namespace},
	} {
		if f.value == "" {
			return fmt.Errorf("pod %s/%s (%s): metadata.%s is empty", pod.Namespace, pod.Name, pod.UID, f.field)
		}
	}
	return nil
}
