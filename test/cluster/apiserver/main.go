// SPDX-License-Identifier: Apache-2.0

// The Kubernetes API server as one binary, for tests that want a real one and have only Go. It adds nothing to it and is never shipped.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
