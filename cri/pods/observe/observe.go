package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
)

// Runtime is the part of a container runtime that an Observer uses. A cri.RuntimeService
// implements it. PodEvents also needs a cri.EventStreamer.
type Runtime interface {
	cri.SandboxReader
	cri.ContainerReader
}

// Config configures an Observer. Runtime, RuntimeName and Owner are required.
type Config struct {
	// Runtime is the runtime to observe. Required.
	Runtime Runtime
	// RuntimeName is the prefix of container IDs, as cri.Versioner reports it, such as
	// "containerd". Required.
	RuntimeName string
	// Owner owns the pods to observe. Foreign pods are invisible. Required.
	Owner cri.Owner
	// NodeIPs returns the addresses of the node, which PodIPs returns for host-network pods.
	// Optional: without it such pods have no addresses.
	NodeIPs func() []string
	// Logger receives a warning when a list does not fit into one reply. Default: discard.
	Logger *slog.Logger
}

// Observer observes pods in a runtime. It is safe for concurrent use.
type Observer struct{ cfg Config }

var (
	_ pleg.Runtime     = (*Observer)(nil)
	_ pleg.EventStream = (*Observer)(nil)
)

// New validates the configuration and returns an Observer.
func New(cfg Config) (*Observer, error) {
	f := fields.Of("observe: Config")
	f.Required("Runtime", cfg.Runtime)
	f.Required("RuntimeName", cfg.RuntimeName)
	f.Checked(cfg.Owner.Check())
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Observer{cfg: cfg}, nil
}

// ListPods lists the owner's pods in the runtime that have a kubelet's labels.
func (o *Observer) ListPods(ctx context.Context) ([]observed.ListedPod, error) {
	sandboxes, containers, err := o.list(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return groupPods(o.cfg.RuntimeName, sandboxes, containers), nil
}

// list lists sandboxes and containers concurrently: of one pod, or of all if uid is empty.
func (o *Observer) list(ctx context.Context, uid types.UID) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container, error) {
	var sandboxFilter *runtimeapi.PodSandboxFilter
	var containerFilter *runtimeapi.ContainerFilter
	if uid != "" {
		selector := map[string]string{labels.PodUID: string(uid)}
		sandboxFilter = &runtimeapi.PodSandboxFilter{LabelSelector: selector}
		containerFilter = &runtimeapi.ContainerFilter{LabelSelector: selector}
	}
	var sandboxes []*runtimeapi.PodSandbox
	var containers []*runtimeapi.Container
	errs := run.Each(2, func(i int) (err error) {
		switch {
		case i == 0:
			sandboxes, err = ListSandboxes(ctx, o.cfg.Runtime, sandboxFilter)
		case uid == "":
			containers, err = ListContainers(ctx, o.cfg.Runtime, o.cfg.Logger)
		default:
			containers, err = o.cfg.Runtime.ListContainers(ctx, containerFilter)
			containers = distinct(containers)
		}
		return err
	})
	return o.cfg.Owner.Sandboxes(sandboxes), o.cfg.Owner.Containers(containers), errors.Join(errs...)
}

// errListed is the error of an object in the list of a pod that is incomplete or has another pod's
// UID. To skip the object would start a second instance beside it.
var errListed = errors.New("listed for the pod without its labels, metadata, image or a valid ID")

// PodStatus returns the state of one pod in detail. For a pod that the runtime does not have it
// returns a status with only the UID, and no error. It skips objects that disappear after they
// were listed. Any other failure is an error, and so is a reply about another object.
func (o *Observer) PodStatus(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	if uid == "" {
		return nil, errors.New("pod status: no UID")
	}
	sandboxes, containers, err := o.list(ctx, uid)
	if err != nil {
		return nil, fmt.Errorf("pod status of %s: list: %w", uid, err)
	}
	sortSandboxes(sandboxes)
	sortContainers(containers)
	status := &observed.Pod{UID: uid} // the name comes from the newest sandbox
	for _, sb := range sandboxes {
		p, ok := labels.OfSandbox(sb)
		if !ok || p.UID != uid {
			return nil, fmt.Errorf("pod status of %s: sandbox %.80q: %w", uid, sb.GetId(), errListed)
		}
		if status.Name == "" {
			status.Name, status.Namespace, status.Source = p.Name, p.Namespace, sb.Annotations[labels.AnnotationSource]
		}
	}
	for _, c := range containers {
		p, _, ok := labels.OfContainer(c)
		if !ok || p.UID != uid {
			return nil, fmt.Errorf("pod status of %s: container %.80q: %w", uid, c.GetId(), errListed)
		}
		if status.Name == "" {
			status.Name, status.Namespace = p.Name, p.Namespace
		}
	}
	if err := o.inspect(ctx, status, sandboxes, containers); err != nil {
		return nil, fmt.Errorf("pod status of %s/%s(%s): %w", status.Namespace, status.Name, uid, err)
	}
	if len(status.Sandboxes) > 0 && status.Sandboxes[0].State == observed.SandboxReady {
		status.IPs = slices.Clone(status.Sandboxes[0].IPs)
	}
	return status, nil
}

// inspect adds the details of every listed object to the status.
func (o *Observer) inspect(ctx context.Context, status *observed.Pod, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) error {
	foundSandboxes := make([]*observed.Sandbox, len(sandboxes))
	foundContainers := make([]*observed.Container, len(containers))
	errs := run.Each(len(sandboxes)+len(containers), func(i int) (err error) {
		if i < len(sandboxes) {
			foundSandboxes[i], err = o.inspectSandbox(ctx, sandboxes[i])
			return err
		}
		i -= len(sandboxes)
		foundContainers[i], err = o.inspectContainer(ctx, containers[i])
		return err
	})
	if err := run.Join(errs...); err != nil {
		return err
	}
	if slices.Contains(foundSandboxes, nil) || slices.Contains(foundContainers, nil) {
		if err := o.checkRemoved(ctx, status.UID, sandboxes, foundSandboxes, containers, foundContainers); err != nil {
			return err
		}
	}
	for _, sb := range foundSandboxes {
		if sb != nil {
			status.Sandboxes = append(status.Sandboxes, *sb)
		}
	}
	for _, c := range foundContainers {
		if c != nil {
			status.Containers = append(status.Containers, *c)
		}
	}
	return nil
}

// checkRemoved returns an error if the runtime still lists an object whose status it did not find.
func (o *Observer) checkRemoved(ctx context.Context, uid types.UID, sandboxes []*runtimeapi.PodSandbox, foundSandboxes []*observed.Sandbox, containers []*runtimeapi.Container, foundContainers []*observed.Container) error {
	sandboxesNow, containersNow, err := o.list(ctx, uid)
	if err != nil {
		return fmt.Errorf("list again: %w", err)
	}
	return run.Join(stillListed("sandbox", sandboxes, foundSandboxes, sandboxesNow), stillListed("container", containers, foundContainers, containersNow))
}

func stillListed[L interface{ GetId() string }, F any](kind string, listed []L, found []*F, now []L) error {
	for i, l := range listed {
		if found[i] == nil && slices.ContainsFunc(now, func(n L) bool { return n.GetId() == l.GetId() }) {
			return fmt.Errorf("status of %s %s: not found, but the runtime still lists it", kind, l.GetId())
		}
	}
	return nil
}

// object is a sandbox or container, as listed or as a status.
type object interface {
	GetId() string
	GetLabels() map[string]string
}

// checkIdentity returns an error for the status of another object than the listed one.
func checkIdentity(listed, status object) error {
	if got := status.GetId(); got != listed.GetId() {
		return fmt.Errorf("the runtime's reply is about %.80q", got)
	}
	for _, key := range []string{labels.PodUID, labels.ContainerName} {
		if want, got := listed.GetLabels()[key], status.GetLabels()[key]; got != want {
			return fmt.Errorf("the runtime's reply has the label %s=%.80q, its list %.80q", key, got, want)
		}
	}
	return nil
}

// inspectSandbox returns nil for a sandbox that no longer exists.
func (o *Observer) inspectSandbox(ctx context.Context, listed *runtimeapi.PodSandbox) (*observed.Sandbox, error) {
	response, err := o.cfg.Runtime.PodSandboxStatus(ctx, listed.Id, false)
	if cri.IsNotFound(err) {
		return nil, nil
	}
	if err == nil && response.GetStatus() == nil {
		err = errors.New("the runtime's reply has no status")
	}
	if err == nil {
		err = checkIdentity(listed, response.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("status of sandbox %s: %w", listed.Id, err)
	}
	sb := toSandbox(response.Status)
	return &sb, nil
}

// inspectContainer returns nil for a container that no longer exists.
func (o *Observer) inspectContainer(ctx context.Context, listed *runtimeapi.Container) (*observed.Container, error) {
	response, err := o.cfg.Runtime.ContainerStatus(ctx, listed.Id, false)
	if cri.IsNotFound(err) {
		return nil, nil
	}
	if err == nil && response.GetStatus() == nil {
		err = errors.New("the runtime's reply has no status")
	}
	if err == nil {
		err = checkIdentity(listed, response.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("status of container %s (%s): %w", listed.Labels[labels.ContainerName], listed.Id, err)
	}
	c := toContainerStatus(o.cfg.RuntimeName, listed.PodSandboxId, response.Status)
	if c.State == observed.StateExited {
		c.Message = joinMessages(c.Message, terminationMessage(ctx, response.Status))
		if err := ctx.Err(); err != nil { // the message may be incomplete
			return nil, fmt.Errorf("termination message of container %s (%s): %w", listed.Labels[labels.ContainerName], listed.Id, err)
		}
	}
	return &c, nil
}

// PodEvents calls dirty with the pod of each event of the runtime. It blocks until the stream ends
// or ctx is done and always returns an error: one that wraps pleg.ErrNoEvents if the runtime has
// no events, otherwise the error of the event stream.
func (o *Observer) PodEvents(ctx context.Context, dirty func(types.UID)) error {
	streamer, ok := o.cfg.Runtime.(cri.EventStreamer)
	if !ok {
		return pleg.ErrNoEvents
	}
	err := streamer.GetContainerEvents(ctx, func(event *runtimeapi.ContainerEventResponse) {
		if uid := eventUID(event, o.cfg.Owner); uid != "" {
			dirty(uid)
		}
	})
	if cri.IsUnimplemented(err) {
		return fmt.Errorf("%w: %w", pleg.ErrNoEvents, err)
	}
	return err
}

// eventUID returns the pod of an event, or "" for an event without a pod of the owner, or with a
// UID that no pod has.
func eventUID(event *runtimeapi.ContainerEventResponse, owner cri.Owner) types.UID {
	all := []map[string]string{event.GetPodSandboxStatus().GetLabels()}
	for _, c := range event.GetContainersStatuses() {
		all = append(all, c.GetLabels())
	}
	for _, l := range all {
		switch uid := l[labels.PodUID]; {
		case uid == "":
		case owner.Owns(l) && podfacts.IsSafeUID(uid):
			return types.UID(uid)
		default:
			return ""
		}
	}
	if uid := event.GetPodSandboxStatus().GetMetadata().GetUid(); podfacts.IsSafeUID(uid) {
		return types.UID(uid)
	}
	return ""
}

// ListSandboxes lists sandboxes of all owners, each once, even if the runtime lists one repeatedly.
func ListSandboxes(ctx context.Context, runtime cri.SandboxReader, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	all, err := runtime.ListPodSandbox(ctx, filter)
	return distinct(all), err
}

// distinct returns the first entry of each ID. A pod with two entries of a ready sandbox would look
// like a pod with two ready sandboxes, which must be replaced.
func distinct[T interface{ GetId() string }](list []T) []T {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(slices.Clone(list), func(e T) bool {
		id := e.GetId()
		again := seen[id]
		seen[id] = true
		return again
	})
}

// ListContainers lists the containers of all owners, each once. If they do not fit into one reply, it
// warns in log, unless that is nil, and lists them per sandbox. Every container has a sandbox.
func ListContainers(ctx context.Context, runtime Runtime, log *slog.Logger) ([]*runtimeapi.Container, error) {
	all, err := runtime.ListContainers(ctx, nil)
	if !errors.Is(err, cri.ErrReplyTooLarge) {
		return distinct(all), err
	}
	fields.Logger(&log)
	log.Warn("the list of containers exceeds one reply; listing them per sandbox", "err", err)
	sandboxes, err := ListSandboxes(ctx, runtime, nil)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	for _, sb := range sandboxes {
		some, err := runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: sb.Id})
		if err != nil {
			return nil, fmt.Errorf("sandbox %s: %w", sb.Id, err)
		}
		all = append(all, some...)
	}
	return distinct(all), nil
}
