package agent

import (
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri"
)

// recorder takes Kubernetes events.
type recorder func(ref v1.ObjectReference, eventtype, reason, message string)

// The reasons of the events that the syncer records.
const (
	eventNetworkNotReady = "NetworkNotReady"
	eventFailedSync      = "FailedSync"
	eventFailedKillPod   = "FailedKillPod"
	eventFailedPodFolder = "FailedToMakePodDataDirectories"
	eventResizeCompleted = "ResizeCompleted"
)

// logEvents writes Kubernetes events to the log: standalone there is no API
// server to keep them. A warning that repeats itself is written once a minute.
func logEvents(log *slog.Logger) recorder {
	limiter := cri.NewLogLimiter(time.Minute)
	return func(ref v1.ObjectReference, eventtype, reason, message string) {
		write := log.Info
		if eventtype == v1.EventTypeWarning {
			write = log.Warn
			about := string(ref.UID) + " " + ref.Namespace + "/" + ref.Name + " " + ref.FieldPath + " " + reason
			if !limiter.Allow(time.Now(), about, message) {
				return
			}
		}
		write(message, "reason", reason, "pod", ref.Namespace+"/"+ref.Name, "field", ref.FieldPath)
	}
}

// warn records that something went wrong with a pod.
func (r recorder) warn(pod *v1.Pod, reason string, err error) {
	r(reference(pod), v1.EventTypeWarning, reason, err.Error())
}

// normal records what has become of a pod.
func (r recorder) normal(pod *v1.Pod, reason, message string) {
	r(reference(pod), v1.EventTypeNormal, reason, message)
}

func reference(pod *v1.Pod) v1.ObjectReference {
	return v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1",
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}
}
