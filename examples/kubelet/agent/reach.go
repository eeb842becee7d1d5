package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/pleg"
)

// Reach lets the kubelet API reach into the agent's pods.
func (a *Agent) Reach() server.Pods { return reach{a.now} }

// reach finds what requests name, and asks the runtime. It starts and stops nothing.
type reach struct{ now func() state }

func refusal(code int, format string, args ...any) error {
	return &server.Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// node is the part of the agent that has a connection.
func (r reach) node() (*node, error) {
	now := r.now()
	if now.node == nil {
		return nil, refusal(http.StatusServiceUnavailable, "the container runtime cannot be asked: %v", now.err)
	}
	return now.node, nil
}

// find returns the pod that a request names, also one that only its worker knows any more.
func (r reach) find(t server.Target) (*node, *v1.Pod, error) {
	n, err := r.node()
	if err != nil {
		return nil, nil, err
	}
	fits := func(pod *v1.Pod) bool {
		return pod.Namespace == t.Namespace && pod.Name == t.Pod && (t.UID == "" || n.syncer.Desired().Translate(t.UID) == pod.UID)
	}
	if pod := n.syncer.Desired().ByName(t.Namespace, t.Pod); pod != nil && fits(pod) {
		return n, pod, nil
	}
	for _, pod := range n.current() {
		if fits(pod) {
			return n, pod, nil
		}
	}
	return nil, nil, refusal(http.StatusNotFound, "pod %q is not on this node", t.Namespace+"/"+t.Pod)
}

// container is what the spec says of a container, of whichever kind.
func container(pod *v1.Pod, name string) (tty bool, err error) {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return list[i].TTY, nil
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return c.TTY, nil
		}
	}
	return false, refusal(http.StatusNotFound, "container %q is not one of pod %q", name, pod.Namespace+"/"+pod.Name)
}

// running returns the ID of a container that runs, and whether it has a terminal.
func (r reach) running(t server.Target) (n *node, id string, tty bool, err error) {
	n, pod, err := r.find(t)
	if err != nil {
		return nil, "", false, err
	}
	if tty, err = container(pod, t.Container); err != nil {
		return nil, "", false, err
	}
	seen, err := n.syncer.PLEG().Get(pod.UID)
	if err != nil {
		return nil, "", false, err
	}
	i := slices.IndexFunc(seen.Containers, func(c pleg.ContainerStatus) bool { return c.Name == t.Container && c.State == pleg.StateRunning })
	if i < 0 {
		return nil, "", false, refusal(http.StatusNotFound, "container %q of pod %q does not run", t.Container, pod.Namespace+"/"+pod.Name)
	}
	return n, seen.Containers[i].ID.ID, tty, nil
}

func (r reach) Exec(ctx context.Context, t server.Target, s server.Streams) (*url.URL, error) {
	n, id, _, err := r.running(t)
	if err != nil {
		return nil, err
	}
	answer, err := n.conn.Runtime.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: id, Cmd: s.Command, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr})
	if err != nil {
		return nil, err
	}
	return url.Parse(answer.Url)
}

func (r reach) Attach(ctx context.Context, t server.Target, s server.Streams) (*url.URL, error) {
	n, id, tty, err := r.running(t)
	if err != nil {
		return nil, err
	}
	answer, err := n.conn.Runtime.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: id, Tty: tty, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr && !tty})
	if err != nil {
		return nil, err
	}
	return url.Parse(answer.Url)
}

func (r reach) PortForward(ctx context.Context, t server.Target, ports []int32) (*url.URL, error) {
	n, pod, err := r.find(t)
	if err != nil {
		return nil, err
	}
	seen, err := n.syncer.PLEG().Get(pod.UID)
	if err != nil {
		return nil, err
	}
	if len(seen.Sandboxes) == 0 || seen.Sandboxes[0].State != pleg.SandboxReady {
		return nil, refusal(http.StatusNotFound, "pod %q has no sandbox that runs", pod.Namespace+"/"+pod.Name)
	}
	answer, err := n.conn.Runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: seen.Sandboxes[0].ID, Port: ports})
	if err != nil {
		return nil, err
	}
	return url.Parse(answer.Url)
}

// maxRun is how long a command of Run may take.
const maxRun = 2 * time.Minute

func (r reach) Run(ctx context.Context, t server.Target, command []string) ([]byte, error) {
	n, id, _, err := r.running(t)
	if err != nil {
		return nil, err
	}
	stdout, stderr, err := n.conn.Runtime.ExecSync(ctx, id, command, maxRun)
	out := slices.Concat(stdout, stderr)
	if err != nil {
		return out, fmt.Errorf("%w: %s", err, out)
	}
	return out, nil
}

func (r reach) Checkpoint(ctx context.Context, t server.Target, timeout time.Duration) (string, error) {
	n, id, _, err := r.running(t)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(n.folders.root, "checkpoints")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", t.Pod, t.Namespace, t.Container, time.Now().UTC().Format(time.RFC3339)))
	return file, n.conn.Runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{
		ContainerId: id, Location: file, Timeout: int64(timeout / time.Second),
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

func (r reach) Logs(ctx context.Context, t server.Target, request server.LogRequest, stdout, stderr io.Writer) error {
	n, pod, err := r.find(t)
	if err != nil {
		return err
	}
	if _, err := container(pod, t.Container); err != nil {
		return err
	}
	if err := request.Validate(); err != nil {
		return refusal(http.StatusBadRequest, "%v", err)
	}
	status := n.statuses.Get(pod.UID)
	if status == nil {
		status = n.saved(pod.UID)
	}
	id, err := instances(status, t.Container).Choose(request.Previous)
	if err != nil {
		return refusal(http.StatusBadRequest, "container %q in pod %q: %v", t.Container, t.Pod, err)
	}
	answer, err := n.conn.Runtime.ContainerStatus(ctx, id, false)
	if cri.IsNotFound(err) {
		return refusal(http.StatusNotFound, "container %q in pod %q: its instance %s is not there any more", t.Container, t.Pod, id)
	}
	if err != nil {
		return err
	}
	err = n.logs.Read(ctx, logs.Log{Path: answer.GetStatus().GetLogPath(), ContainerID: id}, request.Options, stdout, stderr)
	if errors.Is(err, os.ErrNotExist) {
		return refusal(http.StatusNotFound, "container %q in pod %q: its log is not there any more", t.Container, t.Pod)
	}
	return err
}

// instances are those of a container that its pod's status knows.
func instances(status *v1.PodStatus, name string) logs.Instances {
	i := logs.Instances{Container: name}
	if status == nil {
		return i
	}
	for _, c := range slices.Concat(status.ContainerStatuses, status.InitContainerStatuses, status.EphemeralContainerStatuses) {
		if c.Name != name {
			continue
		}
		switch {
		case c.State.Running != nil:
			i.State, i.ID = logs.Running, bare(c.ContainerID)
		case c.State.Terminated != nil:
			i.State, i.ID = logs.Terminated, bare(c.State.Terminated.ContainerID)
		case c.State.Waiting != nil:
			i.State, i.Reason = logs.Waiting, c.State.Waiting.Reason
		}
		if last := c.LastTerminationState.Terminated; last != nil {
			i.LastID = bare(last.ContainerID)
		}
	}
	return i
}

// bare is a container's ID without the name of its runtime.
func bare(id string) string {
	_, after, _ := strings.Cut(id, "://")
	return after
}
