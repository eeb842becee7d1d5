package agent

import (
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/loglimit"
)

// recorder takes Kubernetes events.
type recorder func(ref v1.ObjectReference, eventtype, reason, message string)

// both tells two recorders.
func both(a, b recorder) recorder {
	return func(ref v1.ObjectReference, eventtype, reason, message string) {
		a(ref, eventtype, reason, message)
		b(ref, eventtype, reason, message)
	}
}

// annotated records an event with annotations, which the log does without.
func (g *ground) annotated(ref v1.ObjectReference, annotations map[string]string, eventtype, reason, message string) {
	g.logged(ref, eventtype, reason, message)
	if g.cluster != nil {
		g.cluster.recorder.Annotated(ref, annotations, eventtype, reason, message)
	}
}

// logEvents writes Kubernetes events to the log: standalone there is no API
// server to keep them, and with one it may be away. A warning that repeats itself is written once a minute. origin
// says which manifest a pod has, if any.
func logEvents(log *slog.Logger, origin func(types.UID) string) recorder {
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
