package pods

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

	"github.com/podwright/podwright/pleg"
)

// GCRequest asks for a round of garbage collection.
type GCRequest struct {
	// Policy bounds what is kept of pods that stay.
	Policy GCPolicy
	// SourcesReady tells that every source of pods has reported. Before that no
	// pod counts as gone.
	SourcesReady bool
	// ContentRemovable tells that nothing of a pod is needed any more. It is
	// asked for pods that nobody else has heard of, too, and once for each. nil
	// means that every pod stays.
	ContentRemovable func(uid types.UID) bool
	// RuntimeRemovable is set when disk space is short: pods for which it
	// answers true lose their containers and sandboxes, not their logs. nil
	// when it is not short.
	RuntimeRemovable func(uid types.UID) bool
	// Busy tells that somebody works on a pod: the dead containers of a pod that
	// stays are left to the next round then, since whoever has stopped one may not
	// have noted yet how it ended. It is asked just before a removal. nil means that
	// nobody does.
	Busy func(uid types.UID) bool
}

// asking makes sure that the same answer counts throughout.
func (r GCRequest) asking() GCRequest {
	once := func(ask func(types.UID) bool) func(types.UID) bool {
		if ask == nil {
			return nil
		}
		answers := map[types.UID]bool{}
		return func(uid types.UID) bool {
			answer, asked := answers[uid]
			if !asked {
				answer = ask(uid)
				answers[uid] = answer
			}
			return answer
		}
	}
	r.ContentRemovable, r.RuntimeRemovable = once(r.ContentRemovable), once(r.RuntimeRemovable)
	return r
}

func (r GCRequest) contentRemovable(uid types.UID) bool {
	return r.SourcesReady && r.ContentRemovable != nil && r.ContentRemovable(uid)
}

func (r GCRequest) removable(uid types.UID) bool {
	return r.contentRemovable(uid) || r.SourcesReady && r.RuntimeRemovable != nil && r.RuntimeRemovable(uid)
}

// GarbageCollect removes dead containers, dead sandboxes, the log directories of
// pods that are gone and links that lead nowhere. It goes on after a failure and
// returns all of them; what it cannot list, it leaves alone.
//
// A runtime with more containers than fit into one reply (cri.ErrReplyTooLarge) is
// asked sandbox by sandbox. With cri.ClientConfig.StreamLists one that can streams its
// lists, and there is no such limit.
func (m *Manager) GarbageCollect(ctx context.Context, r GCRequest) error {
	m.trimBackoff(time.Now())
	r = r.asking()
	err := errors.Join(
		m.collectContainers(ctx, r),
		m.collectSandboxes(ctx, r),
		m.collectLinks(ctx),
	)
	if err != nil {
		return fmt.Errorf("garbage collection: %w", err)
	}
	return nil
}

func (m *Manager) collectContainers(ctx context.Context, r GCRequest) error {
	listed, err := m.listContainers(ctx)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	var all []gcContainer
	exists := map[string]bool{}
	for _, c := range listed {
		exists[c.Id] = true
		if p, name, ok := containerIdentity(c); ok {
			all = append(all, gcContainer{
				gcUnit: gcUnit{uid: p.UID, name: name}, pod: p, id: c.Id,
				state: toState(c.State), attempt: c.Metadata.Attempt, created: unixTime(c.CreatedAt),
			})
		}
	}
	m.preStops.retain(exists)
	var errs []error
	for _, c := range planContainers(all, r.Policy, r.removable, time.Now()) {
		if ctx.Err() != nil {
			return errors.Join(append(errs, endOf(ctx))...)
		}
		stays := !r.removable(c.uid)
		if stays && r.Busy != nil && r.Busy(c.uid) {
			continue
		}
		errs = append(errs, m.collectContainer(ctx, c, stays))
	}
	return errors.Join(errs...)
}

// collectContainer removes a container. One of which nobody knows whether it runs
// is stopped before: as it wants it, where its pod stays.
func (m *Manager) collectContainer(ctx context.Context, c gcContainer, podStays bool) error {
	if c.state == pleg.StateUnknown {
		kill := ContainerKill{
			ID: pleg.ContainerID{Runtime: m.cfg.RuntimeName, ID: c.id}, Name: c.name,
			Message: "Container " + c.name + " is in unknown state, it is stopped before it is removed",
		}
		if err := m.killContainer(ctx, podKill{identity: c.pod, restore: podStays}, kill); err != nil {
			return fmt.Errorf("container %s of pod %s: %w", c.name, c.pod, err)
		}
	}
	if err := m.removeContainer(ctx, c.pod, c.name, c.id, false); err != nil {
		return fmt.Errorf("pod %s: %w", c.pod, err)
	}
	return nil
}

// collectSandboxes removes sandboxes and then the log directories of pods, of which
// it knows by then that nothing lives.
func (m *Manager) collectSandboxes(ctx context.Context, r GCRequest) error {
	sandboxes, containers, err := m.listEverything(ctx)
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	holds, lives := map[string]bool{}, map[types.UID]bool{}
	for _, c := range containers {
		holds[c.PodSandboxId] = true
		if p, _, ok := containerIdentity(c); ok && c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			lives[p.UID] = true
		}
	}
	var all []gcSandbox
	exists := map[string]bool{}
	for _, sb := range sandboxes {
		exists[sb.Id] = true
		if p, ok := sandboxIdentity(sb); ok {
			ready := sb.State == runtimeapi.PodSandboxState_SANDBOX_READY
			lives[p.UID] = lives[p.UID] || ready
			all = append(all, gcSandbox{
				uid: p.UID, id: sb.Id, holds: holds[sb.Id], ready: ready,
				attempt: sb.Metadata.Attempt, created: unixTime(sb.CreatedAt),
			})
		}
	}
	m.retainStopped(exists)
	var errs []error
	for _, id := range planSandboxes(all, r.removable) {
		if ctx.Err() != nil {
			return errors.Join(append(errs, endOf(ctx))...)
		}
		errs = append(errs, m.removeSandbox(ctx, id))
	}
	return errors.Join(append(errs, m.collectLogDirs(r, lives))...)
}

func (m *Manager) collectLogDirs(r GCRequest, lives map[types.UID]bool) error {
	entries, err := os.ReadDir(m.cfg.LogRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("log directories: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	var errs []error
	for _, name := range planLogDirs(names, lives, r.contentRemovable) {
		errs = append(errs, os.RemoveAll(filepath.Join(m.cfg.LogRoot, name)))
	}
	return errors.Join(errs...)
}

// collectLinks removes links to logs that are gone. While a container lives, its
// log may be missing for the moment of a rotation.
func (m *Manager) collectLinks(ctx context.Context) error {
	if m.cfg.LinkDir == "" {
		return nil
	}
	dangling, err := danglingLinks(m.cfg.LinkDir)
	if err != nil || len(dangling) == 0 {
		return err
	}
	containers, err := m.listContainers(ctx)
	if err != nil {
		return fmt.Errorf("log links: list containers: %w", err)
	}
	var errs []error
	for _, name := range dangling {
		if id, ok := idOfLink(name); ok && lives(containers, id) {
			continue
		}
		err := os.Remove(filepath.Join(m.cfg.LinkDir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("log link: %w", err))
		}
	}
	return errors.Join(errs...)
}

func danglingLinks(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("log links: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 || !strings.HasSuffix(e.Name(), ".log") {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, e.Name())); errors.Is(err, fs.ErrNotExist) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// lives tells whether a container with this ID, or with an ID that begins so,
// has not exited.
func lives(containers []*runtimeapi.Container, id string) bool {
	for _, c := range containers {
		if strings.HasPrefix(c.Id, id) && c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			return true
		}
	}
	return false
}
