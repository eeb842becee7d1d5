package logs

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// stampForm is how the name of a rotated file ends: the local time of its
	// rotation, as upstream kubelets have it.
	stampForm  = "20060102-150405"
	gzSuffix   = ".gz"
	tempSuffix = ".tmp"
)

// rotated is a file that a rotation has put aside: N.log.STAMP, or N.log.STAMP.gz
// once it is compressed.
type rotated struct {
	name  string
	stamp string
	gz    bool
}

// path returns the file's path; log is the path of its log.
func (r rotated) path(log string) string { return filepath.Join(filepath.Dir(log), r.name) }

// parseRotated tells whether name is a rotated file of the log called base.
// Nothing but such names is ever touched.
func parseRotated(base, name string) (rotated, bool) {
	rest, ok := strings.CutPrefix(name, base+".")
	if !ok {
		return rotated{}, false
	}
	stamp, gz := strings.CutSuffix(rest, gzSuffix)
	if !isStamp(stamp) {
		return rotated{}, false
	}
	return rotated{name: name, stamp: stamp, gz: gz}, true
}

func isStamp(s string) bool {
	_, err := time.Parse(stampForm, s)
	return err == nil
}

// sortRotated returns the rotated files among names, oldest first. Of a file that
// is there in both forms only the uncompressed one is returned.
func sortRotated(base string, names []string) []rotated {
	var list []rotated
	for _, name := range names {
		if r, ok := parseRotated(base, name); ok {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b rotated) int {
		return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.name, b.name))
	})
	return slices.CompactFunc(list, func(a, b rotated) bool { return a.stamp == b.stamp })
}

// listRotated lists the rotated files of a log, oldest first.
func listRotated(path string) ([]rotated, error) {
	names, err := namesIn(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return sortRotated(filepath.Base(path), names), nil
}

// newestPlain returns the newest rotated file that is not compressed.
func newestPlain(list []rotated) (newest rotated, ok bool) {
	for _, r := range slices.Backward(list) {
		if !r.gz {
			return r, true
		}
	}
	return rotated{}, false
}

func namesIn(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// nextStamp is the stamp of a rotation now. Stamps rise, whatever the clock does:
// they tell the order of the files.
func nextStamp(list []rotated, now time.Time) string {
	stamp := now.Format(stampForm)
	if len(list) == 0 {
		return stamp
	}
	newest := list[len(list)-1].stamp
	if stamp > newest {
		return stamp
	}
	// Taken as UTC, where every second has a successor.
	at, err := time.Parse(stampForm, newest)
	if err != nil {
		return stamp
	}
	return at.Add(time.Second).Format(stampForm)
}
