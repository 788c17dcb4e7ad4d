/* The program's commands. Each gets its own name as argv[0] and returns the exit status. */
#pragma once

int command_train(int argc, char **argv);
int command_eval(int argc, char **argv);
int command_predict(int argc, char **argv);
int command_export(int argc, char **argv);
int command_devices(int argc, char **argv);
int command_fingerprint(int argc, char **argv);
int command_report(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_data(int argc, char **argv);
