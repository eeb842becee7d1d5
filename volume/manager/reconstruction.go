package manager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// found is a volume on disk.
type found struct {
	key    volumeKey
	plugin volume.Plugin // nil if there is none of this name
	// shared is the ID of the volume if it is shared; unknown tells that it may be.
	shared  string
	unknown bool
}

// isOnDisk takes what was found of a pod. What is mounted already is known better, and what
// is being mounted where nothing was before is what that makes: its end will tell.
func (w *world) isOnDisk(p *podState, volumes []found, now time.Time) {
	for _, f := range volumes {
		v := w.volume(p, f.key, f.plugin)
		if v.state != StateNotMounted || v.op != nil && !v.op.mount.Found {
			continue
		}
		v.set(StateUncertain, now)
		v.found = true
		if v.spec == nil {
			w.setShared(v, f.shared, f.unknown)
			if v.shared != nil && v.shared.stage == StateNotMounted {
				v.shared.stage, v.shared.found = StateUncertain, true
			}
		}
		w.touchPeers(v)
		w.touchShared(v.shared)
	}
}

// toRead says of which pods there are folders.
func (w *world) toRead(uids []types.UID) {
	for _, uid := range uids {
		w.unread.add(uid)
		w.touch(w.pod(uid))
	}
}

// isRead notes that it is known what the disk has of a pod. With the last of them it is
// known of every volume who uses it.
func (w *world) isRead(uid types.UID) {
	if !w.unread.has(uid) {
		return
	}
	delete(w.unread, uid)
	if len(w.unread) == 0 {
		w.touchAllShared()
	}
}

// listed tells that it is known what is staged, as far as that can be found out.
func (w *world) listed() bool {
	for _, l := range w.lists {
		if !l.done && l.err == nil {
			return false
		}
	}
	return true
}

// reading tells that some pod on disk is being read.
func (w *world) reading() bool {
	for uid := range w.unread {
		if op := w.pods[uid].op; op == nil && w.pods[uid].err == nil || op != nil && !op.stuck {
			return true
		}
	}
	return false
}

// forgetIfEmpty forgets a pod of which only a folder was found.
func (w *world) forgetIfEmpty(p *podState) {
	if p.pod == nil && !p.releasing && len(p.volumes) == 0 {
		delete(w.pods, p.uid)
	}
}

// readPods finds out which pods have folders. Nothing is done before that is known.
func (m *Manager) readPods(ctx context.Context) bool {
	var pause retry
	for {
		uids, err := m.podsOnDisk()
		m.mu.Lock()
		m.startup = err
		if err == nil {
			m.world.toRead(uids)
		}
		m.mu.Unlock()
		if err == nil {
			return true
		}
		m.cfg.Logger.Error("cannot read which pods have volumes", "err", err)
		pause.failed(doRead, time.Time{})
		if !run.Sleep(ctx, pause.delay) {
			return false
		}
	}
}

func (m *Manager) podsOnDisk() (uids []types.UID, err error) {
	entries, err := os.ReadDir(filepath.Join(m.cfg.Layout.Root, "pods"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.IsDir() {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	return uids, err
}

// onDisk lists what the disk has of a pod's volumes.
func (m *Manager) onDisk(uid types.UID) (out []found, err error) {
	for _, block := range []bool{false, true} {
		root := m.cfg.Layout.Volumes(uid)
		if block {
			root = m.cfg.Layout.Devices(uid)
		}
		folders, err := list(root)
		if err != nil {
			return out, err
		}
		for _, folder := range folders {
			if !folder.IsDir() {
				continue // whoever removes the folder will say so
			}
			names, err := list(filepath.Join(root, folder.Name()))
			if err != nil {
				return out, err
			}
			for _, name := range names {
				key := volumeKey{plugin: volume.Unescape(folder.Name()), name: name.Name(), block: block}
				out = append(out, m.foundOn(filepath.Join(root, folder.Name(), name.Name()), key))
			}
		}
	}
	return out, nil
}

// foundOn asks a volume's plugin whose it is.
func (m *Manager) foundOn(dir string, key volumeKey) found {
	f := found{key: key, plugin: m.plugins[key.plugin]}
	if _, ok := f.plugin.(volume.Stager); !ok {
		return f
	}
	owner, ok := f.plugin.(volume.Owner)
	if !ok {
		f.unknown = true
		return f
	}
	err := run.Guard("the plugin", func() (err error) { f.shared, err = owner.VolumeIDOf(dir); return err })
	if err != nil {
		f.unknown = true
		m.cfg.Logger.Warn("cannot tell whose volume this is", "path", dir, "err", err)
	}
	return f
}
