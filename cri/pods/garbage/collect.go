package garbage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

// Request is the input of Collect.
type Request struct {
	// Policy bounds the dead containers to keep of pods that stay.
	Policy Policy
	// SourcesReady is true if every source of pods has reported. Before that no pod counts as
	// removed.
	SourcesReady bool
	// ContentRemovable reports whether a pod and its content are no longer needed. It is called
	// at most once per pod, also for pods that only the runtime lists. Without it every pod
	// stays.
	ContentRemovable func(uid types.UID) bool
	// RuntimeRemovable is set if disk space is short. If it returns true, the pod loses its
	// containers and sandboxes, but not its logs.
	RuntimeRemovable func(uid types.UID) bool
	// Busy reports whether a pod is being worked on. It is called just before a removal. The dead
	// containers of a busy pod stay until the next collection, because their end may not be
	// recorded yet. Without it no pod is busy.
	Busy func(uid types.UID) bool
}

// withCallbacksOnce returns a Request whose callbacks are called once per pod, so that one collection uses
// consistent results.
func (r Request) withCallbacksOnce() Request {
	once := func(callback func(types.UID) bool) func(types.UID) bool {
		if callback == nil {
			return nil
		}
		results := map[types.UID]bool{}
		return func(uid types.UID) bool {
			result, called := results[uid]
			if !called {
				result = callback(uid)
				results[uid] = result
			}
			return result
		}
	}
	r.ContentRemovable, r.RuntimeRemovable = once(r.ContentRemovable), once(r.RuntimeRemovable)
	return r
}

func (r Request) contentRemovable(uid types.UID) bool {
	return r.SourcesReady && r.ContentRemovable != nil && r.ContentRemovable(uid)
}

func (r Request) removable(uid types.UID) bool {
	return r.contentRemovable(uid) || r.SourcesReady && r.RuntimeRemovable != nil && r.RuntimeRemovable(uid)
}

// Collect removes dead containers, dead sandboxes, the log directories of removed pods,
// unfinished log directories of a killed agent, and dangling links. It continues after failures and
// returns them all. If a list fails, it does not touch the objects of that kind.
//
// If a runtime has more containers than fit into one reply (cri.ErrReplyTooLarge), Collect lists
// them per sandbox. A runtime that streams its lists (cri.ClientConfig.StreamLists) has no such
// limit.
func (c *Collector) Collect(ctx context.Context, r Request) error {
	r = r.withCallbacksOnce()
	err := run.Join(
		c.collectContainers(ctx, r),
		c.collectSandboxes(ctx, r),
		c.collectLinks(ctx),
	)
	if err != nil {
		return fmt.Errorf("garbage collection: %w", err)
	}
	return nil
}

func (c *Collector) collectContainers(ctx context.Context, r Request) error {
	listed, err := observe.ListContainers(ctx, c.cfg.Runtime, c.cfg.Logger)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	var all []container
	for _, l := range c.owner().Containers(listed) {
		if p, name, ok := labels.OfContainer(l); ok {
			all = append(all, container{
				unit: unit{uid: p.UID, name: name}, pod: p, id: l.Id,
				state: observe.State(l.State), attempt: l.Metadata.Attempt, created: observe.Time(l.CreatedAt),
			})
		}
	}
	var errs []error
	for _, dead := range planContainers(all, r.Policy, r.removable, time.Now()) {
		if ctx.Err() != nil {
			return run.Join(append(errs, run.EndOf(ctx))...)
		}
		stays := !r.removable(dead.uid)
		if stays && r.Busy != nil && r.Busy(dead.uid) {
			continue
		}
		errs = append(errs, c.collectContainer(ctx, dead, stays))
	}
	return run.Join(errs...)
}

// collectContainer removes a container. It stops a container in unknown state first, with its own
// grace period if its pod stays.
func (c *Collector) collectContainer(ctx context.Context, dead container, podStays bool) error {
	if dead.state == observed.StateUnknown {
		if err := c.cfg.Pods.StopContainer(ctx, dead.pod, dead.name, dead.id, podStays); err != nil {
			return fmt.Errorf("container %s of pod %s: %w", dead.name, dead.pod, err)
		}
	}
	if err := c.cfg.Pods.RemoveContainer(ctx, dead.pod, dead.name, dead.id); err != nil {
		return fmt.Errorf("pod %s: %w", dead.pod, err)
	}
	return nil
}

// collectSandboxes removes sandboxes and then the log directories of pods without live containers
// and sandboxes.
func (c *Collector) collectSandboxes(ctx context.Context, r Request) error {
	sandboxes, containers, err := c.list(ctx)
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	c.retain(sandboxes, containers)
	holds, lives := map[string]bool{}, map[types.UID]bool{}
	for _, l := range containers {
		holds[l.PodSandboxId] = true
		if p, _, ok := labels.OfContainer(l); ok && l.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			lives[p.UID] = true
		}
	}
	var all []sandbox
	for _, sb := range sandboxes {
		if p, ok := labels.OfSandbox(sb); ok {
			ready := sb.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY // or unknown
			lives[p.UID] = lives[p.UID] || ready
			all = append(all, sandbox{
				uid: p.UID, id: sb.Id, holds: holds[sb.Id], ready: ready,
				attempt: sb.Metadata.Attempt, created: observe.Time(sb.CreatedAt),
			})
		}
	}
	var errs []error
	for _, id := range planSandboxes(all, r.removable) {
		if ctx.Err() != nil {
			return run.Join(append(errs, run.EndOf(ctx))...)
		}
		errs = append(errs, c.cfg.Pods.RemoveSandbox(ctx, id))
	}
	return run.Join(append(errs, c.collectLogDirs(r, lives))...)
}

// list lists sandboxes and containers of the owner's pods. It lists containers last, so that each sandbox
// in the result has its containers there, too.
func (c *Collector) list(ctx context.Context) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container, error) {
	sandboxes, err := observe.ListSandboxes(ctx, c.cfg.Runtime, nil)
	if err != nil {
		return nil, nil, err
	}
	containers, err := observe.ListContainers(ctx, c.cfg.Runtime, c.cfg.Logger)
	return c.owner().Sandboxes(sandboxes), c.owner().Containers(containers), err
}

func (c *Collector) retain(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) {
	exists := make(map[string]bool, len(sandboxes)+len(containers))
	for _, sb := range sandboxes {
		exists[sb.Id] = true
	}
	for _, l := range containers {
		exists[l.Id] = true
	}
	c.cfg.Pods.Retain(exists)
}

func (c *Collector) collectLogDirs(r Request, lives map[types.UID]bool) error {
	dirs, err := c.cfg.Pods.Files().PodLogDirs()
	if err != nil {
		return err
	}
	errs := []error{c.cfg.Pods.Files().RemoveUnfinished()}
	for _, dir := range planLogDirs(dirs, lives, r.contentRemovable) {
		errs = append(errs, os.RemoveAll(dir))
	}
	return run.Join(errs...)
}

// collectLinks removes dangling links to logs. Links of live containers stay: during a rotation a
// log is missing for a moment.
func (c *Collector) collectLinks(ctx context.Context) error {
	files := c.cfg.Pods.Files()
	dangling, err := files.DanglingLinks()
	if err != nil || len(dangling) == 0 {
		return err
	}
	containers, err := observe.ListContainers(ctx, c.cfg.Runtime, c.cfg.Logger)
	if err != nil {
		return fmt.Errorf("log links: list containers: %w", err)
	}
	var errs []error
	for _, name := range dangling {
		if id, ok := podfiles.IDOfLink(name); ok && lives(containers, id) {
			continue
		}
		err := os.Remove(filepath.Join(files.LinkDir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("log link: %w", err))
		}
	}
	return run.Join(errs...)
}

// lives reports whether a container whose ID begins with id has not exited.
func lives(containers []*runtimeapi.Container, id string) bool {
	for _, c := range containers {
		if strings.HasPrefix(c.Id, id) && c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			return true
		}
	}
	return false
}
