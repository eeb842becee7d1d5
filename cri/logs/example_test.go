package logs_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/podwright/podwright/cri/logs"
)

func ExampleTail() {
	dir, err := os.MkdirTemp("", "logs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "0.log")
	log := "2026-01-02T15:04:05.1Z stdout F starting\n" +
		"2026-01-02T15:04:05.2Z stderr P cannot open \n" +
		"2026-01-02T15:04:05.3Z stderr F the database\n"
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	text, err := logs.Tail(path, 2, 2048)
	fmt.Printf("%q %v\n", text, err)
	// Output: "cannot open the database\n" <nil>
}

func ExampleParseLine() {
	line, err := logs.ParseLine([]byte("2026-01-02T15:04:05.1Z stderr F no space left\n"))
	fmt.Printf("%s %q %v\n", line.Stream, line.Content, err)
	// Output: stderr "no space left" <nil>
}
