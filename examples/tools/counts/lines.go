package main

import (
	"bytes"
	"cmp"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// lines are the code lines of one room. Tests are the files named _test.go.
type lines struct{ product, tests int }

// countLines counts the Go files of each room, except testdata and folders that begin with a dot.
func countLines(root fs.FS) (map[string]lines, error) {
	rooms := map[string]lines{}
	return rooms, fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err != nil || entry.IsDir() && (name == "testdata" || len(name) > 1 && name[0] == '.') {
			return cmp.Or(err, fs.SkipDir)
		}
		if entry.IsDir() || path.Ext(name) != ".go" {
			return nil
		}
		source, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		count, err := codeLines(source)
		room := rooms[roomOf(file)]
		if strings.HasSuffix(name, "_test.go") {
			room.tests += count
		} else {
			room.product += count
		}
		rooms[roomOf(file)] = room
		return err
	})
}

// roomOf returns the top-level folder of a file. examples/kubelet and the module cri/streams
// are rooms of their own.
func roomOf(file string) string {
	for _, name := range []string{"examples/kubelet", "cri/streams"} {
		if strings.HasPrefix(file, name+"/") {
			return name
		}
	}
	top, _, inFolder := strings.Cut(file, "/")
	if !inFolder {
		return "(root)"
	}
	return strings.Replace(top, "examples", "examples, rest", 1)
}

// codeLines returns the number of lines that remain after gofmt without comments and blank lines.
func codeLines(source []byte) (count int, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
	if err != nil {
		return 0, err
	}
	var code bytes.Buffer
	err = format.Node(&code, files, file)
	for line := range strings.Lines(code.String()) {
		if strings.TrimSpace(line) != "" {
			count++
		}
	}
	return count, err
}
