package pods

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/internal/fields"
)

// LogStageConfig configures a LogStage. Its fields are those of Config.
type LogStageConfig struct {
	// LogRoot holds a directory of logs per pod; zero means /var/log/pods.
	LogRoot string
	// LinkDir has a symbolic link to the log of each container; zero means no links.
	LinkDir string
}

// LogStage has logs removed with their pods, whether or not the runtime knows of them: it
// is a stage in the sense of podworkers/stages, to be released when a pod is gone. Use
// NewLogStage.
type LogStage struct{ files podfiles.Layout }

// NewLogStage checks the configuration and returns a LogStage.
func NewLogStage(cfg LogStageConfig) (*LogStage, error) {
	f := fields.Of("pods: LogStageConfig")
	fields.Default(&cfg.LogRoot, "/var/log/pods")
	f.Absolute("LogRoot", cfg.LogRoot)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &LogStage{podfiles.Layout{LogRoot: cfg.LogRoot, LinkDir: cfg.LinkDir}}, nil
}

// Prepare does nothing: the directory is made with the sandbox.
func (s *LogStage) Prepare(context.Context, *v1.Pod) error { return nil }

// Release removes all logs of a pod, and the links to them.
func (s *LogStage) Release(ctx context.Context, uid types.UID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.files.RemovePodLogs(uid)
}

// Leftovers names the pods that have a log directory.
func (s *LogStage) Leftovers(context.Context) ([]types.UID, error) {
	dirs, err := s.files.PodLogDirs()
	return slices.Collect(maps.Keys(dirs)), err
}
