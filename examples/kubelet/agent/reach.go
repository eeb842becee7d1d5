package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/kubeletapi"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/pleg"
)

// reach lets the kubelet API reach into the agent's pods, and says so while there is no
// connection. It starts and stops nothing.
type reach struct{ now func() state }

// node is the part of the agent that has a connection.
func (r reach) node() (*node, error) {
	now := r.now()
	if now.node == nil {
		return nil, &kubeletapi.Refusal{Code: http.StatusServiceUnavailable, Message: fmt.Sprintf("the container runtime cannot be asked: %v", now.err)}
	}
	return now.node, nil
}

// asked asks the part of the agent that has a connection.
func asked[T any](r reach, ask func(*node) (T, error)) (answer T, err error) {
	n, err := r.node()
	if err != nil {
		return answer, err
	}
	return ask(n)
}

func (r reach) RunningContainer(ctx context.Context, t kubeletapi.Target) (kubeletapi.Container, error) {
	return asked(r, func(n *node) (kubeletapi.Container, error) { return n.syncer.RunningContainer(ctx, t) })
}

func (r reach) RunningSandbox(ctx context.Context, t kubeletapi.Target) (string, error) {
	return asked(r, func(n *node) (string, error) { return n.syncer.RunningSandbox(ctx, t) })
}

func (r reach) Log(ctx context.Context, t kubeletapi.Target, previous bool) (logs.Log, error) {
	return asked(r, func(n *node) (logs.Log, error) { return n.syncer.Log(ctx, t, previous) })
}

func (r reach) Read(ctx context.Context, log logs.Log, o logs.Options, stdout, stderr io.Writer) error {
	n, err := r.node()
	if err != nil {
		return err
	}
	return n.logs.Read(ctx, log, o, stdout, stderr)
}

func (r reach) Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return asked(r, func(n *node) (*runtimeapi.ExecResponse, error) { return n.conn.Runtime.Exec(ctx, request) })
}

func (r reach) Attach(ctx context.Context, request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return asked(r, func(n *node) (*runtimeapi.AttachResponse, error) { return n.conn.Runtime.Attach(ctx, request) })
}

func (r reach) PortForward(ctx context.Context, request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return asked(r, func(n *node) (*runtimeapi.PortForwardResponse, error) {
		return n.conn.Runtime.PortForward(ctx, request)
	})
}

// maxRun is how long a command of Run may take.
const maxRun = 2 * time.Minute

func (r reach) Run(ctx context.Context, t kubeletapi.Target, command []string) ([]byte, error) {
	n, err := r.node()
	if err != nil {
		return nil, err
	}
	c, err := n.syncer.RunningContainer(ctx, t)
	if err != nil {
		return nil, err
	}
	stdout, stderr, err := n.conn.Runtime.ExecSync(ctx, c.ID, command, maxRun)
	out := slices.Concat(stdout, stderr)
	if err != nil {
		return out, fmt.Errorf("%w: %s", err, out)
	}
	return out, nil
}

func (r reach) Checkpoint(ctx context.Context, t kubeletapi.Target, timeout time.Duration) (string, error) {
	n, err := r.node()
	if err != nil {
		return "", err
	}
	c, err := n.syncer.RunningContainer(ctx, t)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(n.folders.root, "checkpoints")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", t.Pod, t.Namespace, t.Container, time.Now().UTC().Format(time.RFC3339)))
	return file, n.conn.Runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{
		ContainerId: c.ID, Location: file, Timeout: int64(timeout / time.Second),
	})
}

func (r reach) RunningPods(context.Context) ([]v1.Pod, error) {
	n, err := r.node()
	if err != nil {
		return nil, err
	}
	out := []v1.Pod{}
	for _, observed := range n.syncer.PLEG().Pods() {
		seen, err := n.syncer.PLEG().Get(observed.UID)
		if err != nil {
			return nil, err
		}
		pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Namespace, Name: seen.Name, UID: seen.UID}}
		for _, c := range seen.Containers {
			if c.State == pleg.StateRunning {
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
			}
		}
		if len(pod.Spec.Containers) > 0 {
			out = append(out, pod)
		}
	}
	return out, nil
}
