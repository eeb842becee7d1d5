package agent

import (
	"log/slog"

	v1 "k8s.io/api/core/v1"
)

// logEvents writes Kubernetes events to the log: standalone there is no API
// server to keep them.
func logEvents(log *slog.Logger) func(ref v1.ObjectReference, eventtype, reason, message string) {
	return func(ref v1.ObjectReference, eventtype, reason, message string) {
		write := log.Info
		if eventtype == v1.EventTypeWarning {
			write = log.Warn
		}
		write(message, "reason", reason, "pod", ref.Namespace+"/"+ref.Name, "field", ref.FieldPath)
	}
}
