package agent

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/kubeletapi"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/pleg/observed"
)

var _ server.Pods = commands{}

// commands implements server.Pods: command execution, checkpoints and the running pods.
type commands struct {
	runtime cri.RuntimeService
	syncer  *podsyncer.Syncer
	dir     string // folder of checkpoints
}

func newSessions(cfg *Config, runtime cri.RuntimeService, syncer *podsyncer.Syncer, logs kubeletapi.LogReader) (http.Handler, error) {
	return kubeletapi.New(kubeletapi.Config{
		// newAuth authorizes requests before they get here.
		Allow: func(*http.Request) error { return nil },
		Pods:  syncer, Runtime: runtime, Logs: logs, IdleTimeout: cfg.Kubelet.StreamingConnectionIdleTimeout.Duration,
	})
}

// newCommands returns the handler of the commands, without /checkpoint if its feature gate is off.
func newCommands(cfg *Config, c commands) http.Handler {
	all := server.NewCommands(c)
	if cfg.Enabled(config.ContainerCheckpoint) {
		return all
	}
	mux := http.NewServeMux()
	mux.Handle("/", all)
	mux.Handle("/checkpoint/", http.NotFoundHandler())
	return mux
}

const maxRun = 2 * time.Minute

func (s commands) Run(ctx context.Context, t kubeletapi.Target, command []string) ([]byte, error) {
	c, err := s.syncer.RunningContainer(ctx, t)
	if err != nil {
		return nil, err
	}
	stdout, stderr, err := s.runtime.ExecSync(ctx, c.ID, command, maxRun)
	out := slices.Concat(stdout, stderr)
	if err != nil {
		return out, fmt.Errorf("%w: %s", err, out)
	}
	return out, nil
}

func (s commands) Checkpoint(ctx context.Context, t kubeletapi.Target, timeout time.Duration) (string, error) {
	c, err := s.syncer.RunningContainer(ctx, t)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(s.dir, fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", t.Pod, t.Namespace, t.Container, time.Now().UTC().Format(time.RFC3339)))
	return file, s.runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{
		ContainerId: c.ID, Location: file, Timeout: int64(timeout / time.Second),
	})
}

func (s commands) RunningPods(context.Context) ([]v1.Pod, error) {
	out := []v1.Pod{}
	for _, listed := range s.syncer.PLEG().Pods() {
		seen, err := s.syncer.PLEG().Get(listed.UID)
		if err != nil {
			return nil, err
		}
		pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Namespace, Name: seen.Name, UID: seen.UID}}
		for _, c := range seen.Containers {
			if c.State == observed.StateRunning {
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
			}
		}
		if len(pod.Spec.Containers) > 0 {
			out = append(out, pod)
		}
	}
	return out, nil
}
