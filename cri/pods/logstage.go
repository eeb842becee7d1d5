package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/podfiles"
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
type LogStage struct{ cfg LogStageConfig }

// NewLogStage checks the configuration and returns a LogStage.
func NewLogStage(cfg LogStageConfig) (*LogStage, error) {
	if cfg.LogRoot == "" {
		cfg.LogRoot = "/var/log/pods"
	}
	if !filepath.IsAbs(cfg.LogRoot) {
		return nil, fmt.Errorf("pods: LogStageConfig.LogRoot is not absolute: %q", cfg.LogRoot)
	}
	return &LogStage{cfg}, nil
}

// Prepare does nothing: the directory is made with the sandbox.
func (s *LogStage) Prepare(context.Context, *v1.Pod) error { return nil }

// Release removes all logs of a pod, and the links to them. The links go first: nothing
// else would tell that they are the pod's.
func (s *LogStage) Release(ctx context.Context, uid types.UID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dirs, err := s.dirs()
	if err != nil {
		return err
	}
	for _, dir := range dirs[uid] {
		if err := s.removeLinks(dir); err != nil {
			return fmt.Errorf("log links: %w", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("logs: %w", err)
		}
	}
	return nil
}

// Leftovers names the pods that have a log directory.
func (s *LogStage) Leftovers(context.Context) ([]types.UID, error) {
	dirs, err := s.dirs()
	var uids []types.UID
	for uid := range dirs {
		uids = append(uids, uid)
	}
	return uids, err
}

// dirs are the log directories of each pod: one, unless a pod has changed its name.
func (s *LogStage) dirs() (map[types.UID][]string, error) {
	entries, err := os.ReadDir(s.cfg.LogRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("logs: %w", err)
	}
	out := map[types.UID][]string{}
	for _, e := range entries {
		if uid, ok := podfiles.UIDOfLogDir(e.Name()); ok && e.IsDir() {
			out[uid] = append(out[uid], filepath.Join(s.cfg.LogRoot, e.Name()))
		}
	}
	return out, nil
}

// removeLinks removes the links to logs in a directory.
func (s *LogStage) removeLinks(dir string) error {
	if s.cfg.LinkDir == "" {
		return nil
	}
	entries, err := os.ReadDir(s.cfg.LinkDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		link := filepath.Join(s.cfg.LinkDir, e.Name())
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, dir+string(filepath.Separator)) {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
