package request

import (
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// LogDir is the directory of a pod's logs below root.
func LogDir(root, namespace, name string, uid types.UID) string {
	return filepath.Join(root, namespace+"_"+name+"_"+string(uid))
}

// LogPath is the log of one instance of a container below the pod's log
// directory.
func LogPath(container string, restartCount int32) string {
	return filepath.Join(container, strconv.FormatInt(int64(restartCount), 10)+".log")
}
