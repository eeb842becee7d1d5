package mounts

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Table parses a mount table such as /proc/1/mountinfo. The result is ordered, oldest mount
// first.
func Table(file string) ([]Point, error) { return table(file, "") }

// TableBelow lists the mounts of this process at and below a path without symbolic links,
// oldest first.
func TableBelow(path string) ([]Point, error) {
	return table("/proc/thread-self/mountinfo", strings.TrimSuffix(path, "/"))
}

// table parses the entries of a mount table at and below path.
func table(file, path string) ([]Point, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	points, lines := []Point{}, bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		p, err := parseLine(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if strings.HasPrefix(p.Path+"/", path+"/") {
			points = append(points, p)
		}
	}
	return points, lines.Err()
}

// maxLine bounds a line in bytes: paths and options have up to a page each, and escapes take
// four bytes per byte.
const maxLine = 1 << 20

// parseLine parses a line in the format of proc_pid_mountinfo(5). Fields are split at single
// spaces, because a field may be empty.
func parseLine(line string) (Point, error) {
	fields := strings.Split(line, " ")
	mark := slices.Index(fields, "-") // the mark follows six fields and the optional ones
	if mark < 6 || len(fields) < mark+4 {
		return Point{}, fmt.Errorf("%q is not a line of a mount table", line)
	}
	options := fields[5] + "," + fields[mark+3]
	return Point{
		Path: unescape(fields[4]), FSType: unescape(fields[mark+1]), Source: unescape(fields[mark+2]), Options: options,
		ReadOnly: slices.Contains(strings.Split(options, ","), "ro"),
		Shared:   slices.ContainsFunc(fields[6:mark], func(f string) bool { return strings.HasPrefix(f, "shared:") }),
	}, nil
}

// unescape decodes octal escapes of three digits.
func unescape(text string) string {
	plain, escaped, found := strings.Cut(text, `\`)
	if !found {
		return text
	}
	var out strings.Builder
	out.WriteString(plain)
	for _, part := range strings.Split(escaped, `\`) {
		if len(part) >= 3 {
			if b, err := strconv.ParseUint(part[:3], 8, 8); err == nil {
				out.WriteByte(byte(b))
				out.WriteString(part[3:])
				continue
			}
		}
		out.WriteString(`\` + part)
	}
	return out.String()
}
