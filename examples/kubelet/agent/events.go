package agent

import (
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver/events"
	"github.com/podwright/podwright/internal/loglimit"
)

// recorder records Kubernetes events in the log, for the status page, and at the API server if the
// agent has one. It is safe for concurrent use.
type recorder struct {
	node v1.ObjectReference
	log  func(ref v1.ObjectReference, eventtype, reason, message string)
	api  *events.Recorder // nil without an API server
	// recent keeps the events for the status page. It may be nil.
	recent *recentEvents
}

// newRecorder builds a recorder. origin returns the manifest of a pod, or "".
func newRecorder(cfg *Config, origin func(types.UID) string, c *cluster) recorder {
	r := recorder{node: nodeReference(cfg.Flags.NodeName), log: logEvents(cfg.Logger, origin), recent: newRecentEvents()}
	if c != nil {
		r.api = c.recorder
	}
	return r
}

func (r recorder) event(ref v1.ObjectReference, eventtype, reason, message string) {
	r.annotated(ref, nil, eventtype, reason, message)
}

func (r recorder) ofNode(eventtype, reason, message string) {
	r.event(r.node, eventtype, reason, message)
}

// annotated records an event with annotations. The log omits the annotations.
func (r recorder) annotated(ref v1.ObjectReference, annotations map[string]string, eventtype, reason, message string) {
	r.log(ref, eventtype, reason, message)
	r.recent.add(ref, eventtype, reason, message, time.Now())
	if r.api != nil {
		r.api.Annotated(ref, annotations, eventtype, reason, message)
	}
}

// nodeReference refers to the Node in events. The UID is the Node's name, as in package node.
func nodeReference(name string) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}

// logEvents writes Kubernetes events to the log, because there may be no API server to keep them. A
// repeated warning is written once a minute. origin returns the manifest of a pod, or "".
func logEvents(log *slog.Logger, origin func(types.UID) string) func(ref v1.ObjectReference, eventtype, reason, message string) {
	limiter := loglimit.New(time.Minute)
	return func(ref v1.ObjectReference, eventtype, reason, message string) {
		write := log.Info
		if eventtype == v1.EventTypeWarning {
			write = log.Warn
			about := string(ref.UID) + " " + ref.Namespace + "/" + ref.Name + " " + ref.FieldPath + " " + reason
			if !limiter.Allow(time.Now(), about, message) {
				return
			}
		}
		args := []any{"reason", reason, "pod", ref.Namespace + "/" + ref.Name, "field", ref.FieldPath}
		if from := origin(ref.UID); from != "" {
			args = append(args, "manifest", from)
		}
		write(message, args...)
	}
}
