package content

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/required"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/ownership"
)

// Config configures Volumes.
type Config struct {
	// Backing makes the folders of the volumes: the plugin for emptyDir volumes.
	// Required.
	Backing volume.Plugin
	// Chown changes owners and groups; nil asks the kernel, which needs rights.
	Chown ownership.ChownFunc
	// Logger receives what could not be given to a pod's group; nil discards.
	Logger *slog.Logger
}

// Volumes are the volumes whose files the agent writes. One serves all plugins of an
// agent. Methods are safe for concurrent use, as those of volume.Plugin are.
//
// Pods with users of their own (hostUsers false) need nothing more: the runtime maps the
// IDs of the files where it mounts the volume, as other kubelets have it do.
type Volumes struct {
	cfg    Config
	memory memory
}

// New returns Volumes.
func New(cfg Config) (*Volumes, error) {
	if err := required.Field("content: Config.Backing", cfg.Backing); err != nil {
		return nil, err
	}
	if cfg.Chown == nil {
		cfg.Chown = ownership.Chown
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Volumes{cfg: cfg, memory: newMemory()}, nil
}

// Content is what a volume shall hold.
type Content struct {
	Payload Payload
	// Medium is where it lies: "" for disk, Memory.
	Medium v1.StorageMedium
	// RefreshAt is Mounted.RefreshAt.
	RefreshAt time.Time
}

// undoTime is how long a mount that failed has to be taken back when its context has
// ended.
const undoTime = 5 * time.Second

// Mount does what volume.Plugin.Mount says, for a volume that holds c. A volume that is
// mounted already keeps its old content when that fails, one that was not is taken down
// again.
func (v *Volumes) Mount(ctx context.Context, m volume.Mount, c Content) (volume.Mounted, error) {
	payload, err := c.Payload.Check()
	if err == nil {
		err = checkInside(m.Inside)
	}
	if err != nil {
		return volume.Mounted{}, volume.Transient(fmt.Errorf("volume %s: %w", m.Spec.Name, err))
	}
	out := volume.Mounted{Path: m.Dir, ReadOnly: true, Relabel: true, RefreshAt: c.RefreshAt}
	sum := v.memory.sum(payload, m.Inside)
	if v.memory.holds(m.Dir, sum) {
		return out, nil
	}
	if err := v.set(ctx, m, payload, c.Medium); err != nil {
		return volume.Mounted{}, v.failed(ctx, m, fmt.Errorf("volume %s: %w", m.Spec.Name, err))
	}
	v.memory.remember(m.Dir, sum, time.Now())
	return out, nil
}

// set brings the volume up to date.
func (v *Volumes) set(ctx context.Context, m volume.Mount, payload Payload, medium v1.StorageMedium) error {
	v.memory.forget(m.Dir)
	below := m
	below.Spec = &volume.Spec{Name: wrapped(m.Spec.Name), Inline: &v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium}}}
	below.StateDir = stateDir(m.StateDir, v.cfg.Backing.Name(), m.Spec.Name)
	below.FSGroup, below.Inside = nil, nil // this package's business
	below.SELinuxLabel = ""                // the runtime relabels: see Mounted.Relabel
	if _, err := v.cfg.Backing.Mount(ctx, below); err != nil {
		return err
	}
	leave, err := makeInside(m.Dir, m.Inside)
	if err != nil {
		return err
	}
	_, err = Write(m.Dir, payload, WriteOptions{
		Leave:   leave,
		Prepare: func(dir string) error { return v.own(ctx, m, dir) },
		Chown:   func(f *os.File, uid int) error { return v.cfg.Chown(int(f.Fd()), f.Name(), uid, -1) },
	})
	if err != nil {
		return err
	}
	v.ownRoot(m)
	return nil
}

// own gives a new version to the pod's group.
func (v *Volumes) own(ctx context.Context, m volume.Mount, dir string) error {
	if m.FSGroup == nil {
		return nil
	}
	_, err := ownership.Apply(ctx, dir, v.group(m))
	return err
}

func (v *Volumes) ownRoot(m volume.Mount) {
	if m.FSGroup == nil {
		return
	}
	if err := ownership.One(m.Dir, v.group(m)); err != nil {
		v.notOwned(m, ".", err)
	}
}

func (v *Volumes) group(m volume.Mount) ownership.Config {
	return ownership.Config{
		Group: *m.FSGroup, ReadOnly: true, Chown: v.cfg.Chown,
		OnError: func(path string, err error) { v.notOwned(m, path, err) },
	}
}

func (v *Volumes) notOwned(m volume.Mount, path string, err error) {
	v.cfg.Logger.Warn("cannot give a file of a volume to the pod's group", "volume", m.Dir, "path", path, "err", err)
}

// failed takes back what a first mount has left behind, and says what is left.
func (v *Volumes) failed(ctx context.Context, m volume.Mount, err error) error {
	v.memory.forget(m.Dir)
	if m.Again || m.Found {
		return volume.Uncertain(err)
	}
	call, done := run.WithGrace(ctx, undoTime)
	defer done()
	undo := v.Unmount(call, volume.Unmount{Pod: m.Pod.UID, Name: m.Spec.Name, Dir: m.Dir, StateDir: m.StateDir})
	if undo != nil {
		return volume.Uncertain(run.Join(err, undo))
	}
	return err
}

// Unmount does what volume.Plugin.Unmount says.
func (v *Volumes) Unmount(ctx context.Context, u volume.Unmount) error {
	v.memory.forget(u.Dir)
	u.StateDir = stateDir(u.StateDir, v.cfg.Backing.Name(), u.Name)
	u.Name = wrapped(u.Name)
	return v.cfg.Backing.Unmount(ctx, u)
}

// wrapped is how kubelets call the folder below a volume that is not an emptyDir volume.
func wrapped(name string) string { return "wrapped_" + name }

// stateDir is where the backing plugin keeps its own about a volume; of is where the
// volume's plugin would.
func stateDir(of, backing, name string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(of)), volume.Escape(backing), wrapped(name))
}

// checkInside refuses mounts of other volumes in what Write makes for itself.
func checkInside(inside []string) error {
	for _, at := range inside {
		if strings.HasPrefix(at, "..") {
			return fmt.Errorf("another volume is to be mounted at %.80q: that begins with \"..\"", at)
		}
	}
	return nil
}

// makeInside makes the folders at which containers mount other volumes, and returns the
// names that they have in dir itself. Where a file of the payload is seen already it
// stays: only a container that came later, for debugging, mounts there.
func makeInside(dir string, inside []string) (names map[string]bool, err error) {
	if len(inside) == 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names = map[string]bool{}
	for _, at := range inside {
		names[top(at)] = true
		if _, err := root.Readlink(top(at)); err == nil {
			continue
		}
		parts := strings.Split(at, "/")
		for i := range parts {
			if err := makeFolder(root, strings.Join(parts[:i+1], "/")); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

func makeFolder(root *os.Root, name string) error {
	err := root.Mkdir(name, folderMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return root.Chmod(name, folderMode)
}
