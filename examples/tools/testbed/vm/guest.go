package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// run boots a guest that runs a shell command in a shared folder. It writes the command's output
// to out and returns its exit code.
func (i image) run(ctx context.Context, folder, command string, out io.Writer) (code int, err error) {
	folder, err = filepath.Abs(folder)
	if err != nil {
		return exitSetup, err
	}
	if strings.ContainsAny(folder, ",") {
		return exitSetup, fmt.Errorf("%s: a folder with a comma in its name cannot be shared", folder)
	}
	if err := os.WriteFile(filepath.Join(folder, ".job"), []byte(command+"\n"), 0o600); err != nil {
		return exitSetup, err
	}
	codeFile := filepath.Join(folder, ".code")
	if err := os.Remove(codeFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return exitSetup, err
	}
	console := filepath.Join(i.dir, "console.log")
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "3072", "-display", "none",
		"-no-reboot", "-snapshot", "-kernel", i.kernel(), "-initrd", i.initrd(), "-append", "console=ttyS0 root=/dev/vda rw panic=-1 quiet",
		"-drive", "file="+i.disk()+",if=virtio,format=raw",
		"-virtfs", "local,path="+folder+",mount_tag=share,security_model=none",
		"-nic", "none", "-serial", "file:"+console, "-serial", "stdio")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	lines, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return exitSetup, err
	}
	copyLines(out, lines)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return exitSetup, fmt.Errorf("%w; see the boot log %s", context.Cause(ctx), console)
	}
	text, readErr := os.ReadFile(codeFile)
	if readErr != nil {
		return exitSetup, fmt.Errorf("the guest did not finish: %w; see %s\n%s", errors.Join(err, readErr), console, &stderr)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// copyLines copies the output of a serial line without the carriage returns.
func copyLines(out io.Writer, from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			fmt.Fprint(out, strings.ReplaceAll(line, "\r", ""))
		}
		if err != nil {
			return
		}
	}
}
