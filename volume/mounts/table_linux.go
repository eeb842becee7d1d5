package mounts

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Table reads a table of mounts, as /proc/1/mountinfo, the oldest mount first.
func Table(file string) ([]Point, error) { return table(file, "") }

// TableBelow lists what is mounted at and below a path without symbolic links, the
// oldest first, as this process sees it.
func TableBelow(path string) ([]Point, error) {
	return table("/proc/thread-self/mountinfo", strings.TrimSuffix(path, "/"))
}

// table reads what a table says of a path and of what is below it.
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

// maxLine is the longest line: paths and options have a page each, of which every byte
// may take four.
const maxLine = 1 << 20

// parseLine reads a line as proc_pid_mountinfo(5) describes it. What separates fields is
// one space, since fields may be empty.
func parseLine(line string) (Point, error) {
	fields := strings.Split(line, " ")
	mark := slices.Index(fields, "-") // after six fields, and any number of optional ones
	if mark < 6 || len(fields) < mark+4 {
		return Point{}, fmt.Errorf("%q is no line of a table of mounts", line)
	}
	options := fields[5] + "," + fields[mark+3]
	return Point{
		Path: unescape(fields[4]), FSType: unescape(fields[mark+1]), Source: unescape(fields[mark+2]), Options: options,
		ReadOnly: slices.Contains(strings.Split(options, ","), "ro"),
		Shared:   slices.ContainsFunc(fields[6:mark], func(f string) bool { return strings.HasPrefix(f, "shared:") }),
	}, nil
}

// unescape brings back the bytes that stand as three octal digits.
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
