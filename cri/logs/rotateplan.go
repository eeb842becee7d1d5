package logs

import "strings"

// cleanup is what is to be done with the files of a log before it is rotated.
type cleanup struct {
	remove   []string
	compress []string // plain rotated files, oldest first
}

// planCleanup decides what happens to the files of the log called base. keep is
// how many rotated files may stay. Nothing else in the directory is touched.
func planCleanup(base string, names []string, keep int) cleanup {
	var plan cleanup
	compressed := map[string]bool{}
	for _, name := range names {
		if r, ok := parseRotated(base, name); ok && r.gz {
			compressed[r.stamp] = true
		}
	}
	var list []string
	for _, name := range names {
		r, ok := parseRotated(base, name)
		switch {
		case isLeftover(base, name):
			// A crash came before it was complete.
			plan.remove = append(plan.remove, name)
		case ok && !r.gz && compressed[r.stamp]:
			// A crash came before it was removed.
			plan.remove = append(plan.remove, name)
		case ok:
			list = append(list, name)
		}
	}
	for i, r := range sortRotated(base, list) {
		switch {
		case i < len(list)-keep:
			plan.remove = append(plan.remove, r.name)
		case !r.gz:
			plan.compress = append(plan.compress, r.name)
		}
	}
	return plan
}

// isLeftover tells whether name is what compressing a rotated file writes to.
func isLeftover(base, name string) bool {
	name, ok := strings.CutSuffix(name, tempSuffix)
	if !ok {
		return false
	}
	_, ok = parseRotated(base, name)
	return ok
}
