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
	// stampForm is the suffix of a rotated file: the local time of its rotation, as in upstream
	// kubelets.
	stampForm  = "20060102-150405"
	gzSuffix   = ".gz"
	tempSuffix = ".tmp"
)

// rotated is a rotated file: N.log.STAMP, or N.log.STAMP.gz once it is compressed.
type rotated struct {
	name  string
	stamp string
	gz    bool
}

func (r rotated) path(log string) string { return filepath.Join(filepath.Dir(log), r.name) }

// parseRotated reports whether name is a rotated file of the log called base. Other files are
// never changed.
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

// sortRotated returns the rotated files among names, oldest first. Of a file in both forms it
// returns only the uncompressed one.
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

// newestPlain returns the newest uncompressed rotated file.
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

// nextStamp returns the stamp of a rotation at now. Stamps always increase, even if the clock is
// set back, because they define the order of the files.
func nextStamp(list []rotated, now time.Time) string {
	stamp := now.Format(stampForm)
	if len(list) == 0 {
		return stamp
	}
	newest := list[len(list)-1].stamp
	if stamp > newest {
		return stamp
	}
	// Parsed as UTC, which has no gaps.
	at, err := time.Parse(stampForm, newest)
	if err != nil {
		return stamp
	}
	return at.Add(time.Second).Format(stampForm)
}
