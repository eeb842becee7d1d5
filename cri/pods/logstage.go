package pods

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/internal/fields"
)

// LogStageConfig configures a LogStage. Its fields are the same as in Config.
type LogStageConfig struct {
	// Owner owns the pods. Logs of other owners stay. Required.
	Owner cri.Owner
	// LogRoot is the directory with one log directory per pod. Default: /var/log/pods.
	LogRoot string
	// LinkDir is the directory of symbolic links to container logs. Optional.
	LinkDir string
}

// LogStage removes the logs of pods after their removal, also if the runtime does not list the
// pods. It is a stage (package podworkers/stages) with release point "gone". Use NewLogStage.
type LogStage struct{ files podfiles.Layout }

// NewLogStage validates the configuration and returns a LogStage.
func NewLogStage(cfg LogStageConfig) (*LogStage, error) {
	f := fields.Of("pods: LogStageConfig")
	fields.Default(&cfg.LogRoot, "/var/log/pods")
	f.Absolute("LogRoot", cfg.LogRoot)
	f.Checked(cfg.Owner.Check())
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &LogStage{podfiles.Layout{Owner: cfg.Owner, LogRoot: cfg.LogRoot, LinkDir: cfg.LinkDir}}, nil
}

// Prepare does nothing: SyncPod makes the log directory with the sandbox.
func (s *LogStage) Prepare(context.Context, *v1.Pod) error { return nil }

// Release removes all logs of a pod and the links to them.
func (s *LogStage) Release(ctx context.Context, uid types.UID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.files.RemovePodLogs(uid)
}

// Leftovers returns the pods that have a log directory.
func (s *LogStage) Leftovers(context.Context) ([]types.UID, error) {
	dirs, err := s.files.PodLogDirs()
	return slices.Collect(maps.Keys(dirs)), err
}
