package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
)

// takeover keeps the UIDs of static pods that another kubelet started, so that their containers
// continue. Each kubelet derives the UID of a manifest without metadata.uid in its own way.
type takeover struct {
	folders folders
	logs    string // the folder of the pods' logs
	log     *slog.Logger
}

// derivedFile is in the folder of a pod with a foreign UID. It has the UID that this kubelet
// derives from the pod's manifest.
const derivedFile = "podwright-derived-uid"

// uid returns the UID of the pod that runs from the same manifest, or pod.UID. Such a pod was taken
// over before, or only another kubelet has run it and its folder is newer than the last change of
// the file. A replaced folder of manifests can contain older files: it must not be replaced while
// the kubelets change.
func (t takeover) uid(pod *v1.Pod, origin string) types.UID {
	path, isFile := strings.CutPrefix(origin, "file:")
	if !isFile || t.folders.hasPod(pod.UID) {
		return pod.UID
	}
	running := t.running(pod)
	for _, uid := range running {
		if text, err := os.ReadFile(t.derived(uid)); err == nil && string(text) == string(pod.UID) {
			return uid
		}
	}
	if len(running) != 1 || !t.isForeign(running[0]) || !t.isNewer(running[0], path) {
		return pod.UID
	}
	uid := running[0]
	if err := fs.WriteAtomic(t.derived(uid), []byte(pod.UID), 0o600); err != nil {
		t.log.Error("cannot take over a static pod", "pod", pod.Namespace+"/"+pod.Name, "podUID", uid, "err", err)
		return pod.UID
	}
	t.log.Info("static pod taken over from another kubelet", "pod", pod.Namespace+"/"+pod.Name, "podUID", uid)
	return uid
}

func (t takeover) derived(uid types.UID) string {
	return filepath.Join(t.folders.pod(uid), derivedFile)
}

// running returns the UIDs of pods with the name of a pod that have a folder of logs and one of
// their own.
func (t takeover) running(pod *v1.Pod) (out []types.UID) {
	entries, _ := os.ReadDir(t.logs) // without it no pod ran
	for _, e := range entries {
		uid, found := strings.CutPrefix(e.Name(), pod.Namespace+"_"+pod.Name+"_")
		if found && t.folders.hasPod(types.UID(uid)) {
			out = append(out, types.UID(uid))
		}
	}
	return out
}

// isForeign reports whether this kubelet has never saved a status of the pod.
func (t takeover) isForeign(uid types.UID) bool {
	_, err := os.Stat(t.folders.status(uid))
	return errors.Is(err, os.ErrNotExist)
}

// isNewer reports whether the pod's folder was created after the last change of a file, and of the
// link at its path. It returns false if the filesystem does not record the creation.
func (t takeover) isNewer(uid types.UID, path string) bool {
	var pod unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, t.folders.pod(uid), 0, unix.STATX_BTIME, &pod); err != nil || pod.Mask&unix.STATX_BTIME == 0 {
		return false
	}
	for _, follow := range []int{0, unix.AT_SYMLINK_NOFOLLOW} {
		var file unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, path, follow, unix.STATX_CTIME, &file); err != nil || !statxTime(pod.Btime).After(statxTime(file.Ctime)) {
			return false
		}
	}
	return true
}

func statxTime(t unix.StatxTimestamp) time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }
