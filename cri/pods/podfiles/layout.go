// Package podfiles knows the files that the containers of a pod have on the node: their
// logs and the links to these, and the files for their termination messages. It is
// shared by those who make the files and those who remove them.
package podfiles

import "k8s.io/apimachinery/pkg/types"

// Layout tells where the files of pods are.
type Layout struct {
	// LogRoot holds a directory of logs per pod.
	LogRoot string
	// LinkDir has a symbolic link to the log of each container; "" means no links.
	LinkDir string
	// PodDir returns a pod's directory, in which termination message files are; nil
	// means that there are none.
	PodDir func(uid types.UID) string
}
