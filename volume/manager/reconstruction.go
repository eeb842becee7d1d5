package manager

import (
	"context"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

type found struct {
	key    volumeKey
	plugin volume.Plugin // nil if the agent lacks the plugin
	// shared is the id of a shared volume. unknown is true if the volume may be shared but its
	// id is unknown.
	shared  string
	unknown bool
}

// addFound adds the volumes on the disk of a pod. It ignores volumes that are mounted, and
// volumes whose first mount is in progress.
func (rc *reconciler) addFound(p *podState, volumes []found, now time.Time) {
	for _, f := range volumes {
		v := rc.volume(p, f.key, f.plugin)
		if v.state != StateNotMounted || v.op != nil && !v.op.mount.Found {
			continue
		}
		v.set(StateUncertain, now)
		v.found = true
		if v.spec == nil {
			rc.setShared(v, f.shared, f.unknown)
			if v.shared != nil && v.shared.stage == StateNotMounted {
				v.shared.stage, v.shared.found = StateUncertain, true
			}
		}
		rc.touchPeers(v)
		rc.touchShared(v.shared)
	}
}

func (rc *reconciler) addUnread(uids []types.UID) {
	for _, uid := range uids {
		rc.unread.add(uid)
		rc.touch(rc.pod(uid))
	}
}

// markRead records that a pod's folders were read. After the last pod, the users of all volumes
// are known.
func (rc *reconciler) markRead(uid types.UID) {
	if !rc.unread.has(uid) {
		return
	}
	delete(rc.unread, uid)
	if len(rc.unread) == 0 {
		rc.touchAllShared()
	}
}

// allListed reports whether the listings of staged volumes are complete or have failed.
func (a *actualState) allListed() bool {
	for _, l := range a.lists {
		if !l.done && l.err == nil {
			return false
		}
	}
	return true
}

// reading reports whether a read of a pod's folders is in progress or about to start.
func (rc *reconciler) reading() bool {
	for uid := range rc.unread {
		if op := rc.pods[uid].op; op == nil && rc.pods[uid].err == nil || op != nil && !op.stuck {
			return true
		}
	}
	return false
}

// forgetIfEmpty removes the state of a pod with a folder but without volumes.
func (rc *reconciler) forgetIfEmpty(p *podState) {
	if p.pod == nil && !p.releasing && len(p.volumes) == 0 {
		delete(rc.pods, p.uid)
	}
}

// readPods lists the pods with folders, with retries until ctx is done. No operation begins
// before it succeeds.
func (m *Manager) readPods(ctx context.Context) bool {
	var pause retry
	for {
		uids, err := m.podsOnDisk()
		m.mu.Lock()
		m.startup = err
		if err == nil {
			m.reconciler.addUnread(uids)
		}
		m.mu.Unlock()
		if err == nil {
			return true
		}
		m.cfg.Logger.Error("Cannot list the pods on the disk", "err", err)
		pause.failed(doRead, time.Time{})
		if !run.Sleep(ctx, pause.delay) {
			return false
		}
	}
}

func (m *Manager) podsOnDisk() (uids []types.UID, err error) {
	entries, err := fs.List(filepath.Join(m.cfg.Layout.Root, "pods"))
	for _, e := range entries {
		if e.IsDir() {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	return uids, err
}

func (m *Manager) volumesOnDisk(uid types.UID) (out []found, err error) {
	for _, block := range []bool{false, true} {
		root := m.cfg.Layout.Volumes(uid)
		if block {
			root = m.cfg.Layout.Devices(uid)
		}
		folders, err := fs.List(root)
		if err != nil {
			return out, err
		}
		for _, folder := range folders {
			if !folder.IsDir() {
				continue // the removal of the folder reports it
			}
			names, err := fs.List(filepath.Join(root, folder.Name()))
			if err != nil {
				return out, err
			}
			for _, name := range names {
				key := volumeKey{plugin: volume.Unescape(folder.Name()), name: name.Name(), block: block}
				out = append(out, m.identify(filepath.Join(root, folder.Name(), name.Name()), key))
			}
		}
	}
	return out, nil
}

// identify returns the volume at a path, with its id from the plugin.
func (m *Manager) identify(dir string, key volumeKey) found {
	f := found{key: key, plugin: m.plugins[key.plugin]}
	if _, ok := f.plugin.(volume.Stager); !ok {
		return f
	}
	owner, ok := f.plugin.(volume.Identifier)
	if !ok {
		f.unknown = true
		return f
	}
	err := run.Guard("the plugin", func() (err error) { f.shared, err = owner.VolumeIDOf(dir); return err })
	if err != nil {
		f.unknown = true
		m.cfg.Logger.Warn("Cannot identify the shared volume of a folder", "path", dir, "err", err)
	}
	return f
}
