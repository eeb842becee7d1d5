package iptables_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/podwright/podwright/examples/kubelet/iptables"
)

// What would be done can be seen without doing it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	k, err := iptables.New(iptables.Config{Command: func(_ context.Context, program string, args ...string) (int, string, error) {
		if program == "ip6tables" {
			cancel()
		}
		fmt.Println(program, strings.Join(args, " "))
		return 1, "not here", nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(k.Run(ctx))
	// Output:
	// iptables -w 5 -t nat -S POSTROUTING
	// ip6tables -w 5 -t nat -S POSTROUTING
	// <nil>
}
